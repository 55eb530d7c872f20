import { setTimeout as sleep } from 'node:timers/promises';

export const dynamic = 'force-dynamic';

// Reload or stop the app while this is under way: the answer comes all the same.
export async function GET() {
  await sleep(1000);
  return Response.json({ message: 'That took a second', pid: process.pid });
}
