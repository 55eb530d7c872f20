import { setTimeout as sleep } from 'node:timers/promises';

import { Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';

export interface Greeting {
  message: string;
  pid: number;
}

@Injectable()
export class GreetingService implements OnApplicationShutdown {
  private readonly logger = new Logger(GreetingService.name);

  hello(): Greeting {
    return { message: 'Hello from NestJS', pid: process.pid };
  }

  async slow(): Promise<Greeting> {
    await sleep(1000);
    return { message: 'That took a second', pid: process.pid };
  }

  /** After the last request: the place for the pool of a database. */
  onApplicationShutdown(signal?: string): void {
    this.logger.log(`closed after ${signal}`);
  }
}
