export interface Greeting {
  message: string;
  pid: number;
}

export function greeting(pid: number): Greeting {
  return { message: 'Hello from TypeScript', pid };
}
