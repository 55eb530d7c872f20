// One suite per Node version, each with a separate Forkful.
import { after, before, describe } from 'node:test';

import { MAJORS } from './nodes.mjs';
import { sandbox } from './sandbox.mjs';

/**
 * Declares a suite for each Node version. Its tests share one daemon, so each starts an app of its own
 * name and deletes it.
 * @param {string} title
 * @param {(forkful: import('./sandbox.mjs').Sandbox, major: number) => void} declare
 * @param {number[]} [majors]
 */
export function onEachNode(title, declare, majors = MAJORS) {
  for (const major of majors) {
    describe(`${title} on Node ${major}`, { concurrency: 3 }, () => {
      /** @type {import('./sandbox.mjs').Sandbox} */
      let box;
      before(async () => { box = await sandbox(null, major); });
      after(() => box.close());
      // The sandbox exists when the tests run, not when they are declared.
      declare(new Proxy(/** @type {any} */ ({}), {
        get: (_, key) => (typeof box[key] === 'function' ? box[key].bind(box) : box[key]),
      }), major);
    });
  }
}
