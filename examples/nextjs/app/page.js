// Rendered for each request, so that it shows which worker did it.
export const dynamic = 'force-dynamic';

export default function Page() {
  return (
    <main>
      <h1>Hello from Next.js</h1>
      <p>Rendered by process {process.pid}. Load the page again: another worker may do it.</p>
    </main>
  );
}
