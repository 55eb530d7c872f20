// Where the system has a Chromium. The Chromium without a window is preferred, because it takes about half the CPU time. Where there is
// no Chromium, the tests say so loudly and are skipped; `FORKFUL_CHROMIUM` names another program.
import { existsSync } from 'node:fs';

const PLACES = [
  process.env.FORKFUL_CHROMIUM, '/usr/bin/chromium-headless-shell', '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable', '/opt/google/chrome/chrome', '/snap/bin/chromium',
];

const executablePath = PLACES.find((place) => place && existsSync(place));

if (!executablePath) {
  console.error('\n!! No Chromium is installed: pages are NOT tested in a browser. `apt-get install chromium-headless-shell`, or set FORKFUL_CHROMIUM.\n');
}

/** Bound on anything that a browser does: a machine that does much else at the same time is slow. */
export const PATIENCE_MS = 180_000;

/** Why tests are skipped, or `false`. */
export const skip = executablePath ? false : 'no Chromium is installed';

/** Options of playwright-core's `launch`. */
export const LAUNCH = {
  executablePath,
  headless: true,
  timeout: PATIENCE_MS,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
};
