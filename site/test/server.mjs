// Serves the built site as GitHub Pages does: under its base, `/x` is `x.html`, compressed.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.svg': 'image/svg+xml', '.png': 'image/png', '.woff2': 'font/woff2' };

/** The file of an address; `undefined` where there is none. */
function find(folder, address) {
  for (const name of [address, `${address}.html`, path.join(address, 'index.html')]) {
    try {
      return { name, bytes: readFileSync(path.join(folder, path.normalize(`/${name}`))) };
    } catch {
      // The next name.
    }
  }
  return undefined;
}

export async function serve(folder, base) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const found = pathname.startsWith(base) ? find(folder, decodeURIComponent(pathname.slice(base.length))) : undefined;
    if (!found) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': `${TYPES[path.extname(found.name)] ?? 'application/octet-stream'}; charset=utf-8`, 'content-encoding': 'gzip' });
    response.end(gzipSync(found.bytes));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => new Promise((done) => { server.close(done); server.closeAllConnections(); }) };
}
