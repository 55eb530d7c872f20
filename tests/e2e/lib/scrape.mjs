// The metrics page, as a scraper gets it.
import assert from 'node:assert/strict';
import http from 'node:http';
import { join } from 'node:path';

/**
 * Reads the page from the daemon's own socket; `undefined` while there is no daemon.
 * @param {import('./sandbox.mjs').Sandbox} forkful
 * @returns {Promise<{ text: string, type: string } | undefined>}
 */
export function scrape(forkful, path = '/v1/metrics', accept = '*/*') {
  return new Promise((resolve) => {
    const request = http.get({ socketPath: join(forkful.home, 'forkful.sock'), path, agent: false, headers: { accept } }, async (response) => {
      let text = '';
      try {
        for await (const part of response.setEncoding('utf8')) text += part;
      } catch {
        return resolve(undefined);
      }
      assert.equal(response.statusCode, 200, text);
      return resolve({ text, type: response.headers['content-type'] });
    });
    request.on('error', () => resolve(undefined));
  });
}

/** The page without gauges that prom-client names like counters (`nodejs_active_handles_total`): promtool is right to object, and we keep its names. */
export function withoutOddNames(page) {
  return page.replace(/^.*\bnodejs_active_\w+_total\b.*\n/gm, '');
}
