import { Controller, Get } from '@nestjs/common';

import { type Greeting, GreetingService } from './greeting.service.js';

@Controller()
export class GreetingController {
  constructor(private readonly greetings: GreetingService) {}

  @Get()
  hello(): Greeting {
    return this.greetings.hello();
  }

  /** Reload or stop the app while this is under way: the answer comes all the same. */
  @Get('slow')
  slow(): Promise<Greeting> {
    return this.greetings.slow();
  }
}
