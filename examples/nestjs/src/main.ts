import 'reflect-metadata';

import { NestFactory } from '@nestjs/core';

import { AppModule } from './app.module.js';

const app = await NestFactory.create(AppModule, { logger: ['log', 'warn', 'error'] });
// SIGINT and SIGTERM close the app: open requests are finished, then the shutdown hooks of the providers run.
app.enableShutdownHooks();
await app.listen(process.env.PORT ?? 3000);
