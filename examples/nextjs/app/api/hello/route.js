export const dynamic = 'force-dynamic';

export function GET() {
  return Response.json({ message: 'Hello from Next.js', pid: process.pid });
}
