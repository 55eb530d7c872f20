import { Module } from '@nestjs/common';

import { GreetingController } from './greeting.controller.js';
import { GreetingService } from './greeting.service.js';
import { HealthController } from './health.controller.js';

@Module({
  controllers: [GreetingController, HealthController],
  providers: [GreetingService],
})
export class AppModule {}
