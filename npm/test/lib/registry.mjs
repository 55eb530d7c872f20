// A registry of packages on a port of this machine: as much of the protocol as npm and Yarn use to install.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { basename } from 'node:path';

/**
 * Serves these tarballs, and nothing else, until the end of the test.
 * @param {{ after: (step: () => void) => void }} t
 * @param {string[]} tarballs
 * @returns {Promise<string>} its address
 */
export async function registry(t, tarballs) {
  /** @type {Map<string, object>} */
  const packages = new Map();
  const files = new Map(tarballs.map((path) => [basename(path), readFileSync(path)]));
  const server = http.createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '/').slice(1);
    const file = files.get(path);
    const metadata = packages.get(path);
    if (file) response.end(file);
    else if (metadata) response.setHeader('content-type', 'application/json').end(JSON.stringify(metadata));
    else response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"not found"}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.close(); server.closeAllConnections(); });
  const address = `http://127.0.0.1:${server.address().port}/`;
  for (const tarball of tarballs) {
    const manifest = JSON.parse(execFileSync('tar', ['xzOf', tarball, 'package/package.json'], { encoding: 'utf8' }));
    const bytes = files.get(basename(tarball));
    const dist = {
      tarball: `${address}${basename(tarball)}`,
      shasum: createHash('sha1').update(bytes).digest('hex'),
      integrity: `sha512-${createHash('sha512').update(bytes).digest('base64')}`,
    };
    const { name, version } = manifest;
    packages.set(name, { name, 'dist-tags': { latest: version }, versions: { [version]: { ...manifest, dist } } });
  }
  return address;
}
