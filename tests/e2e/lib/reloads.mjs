// Reloads whose new version does not get ready.

/** The times within which a new version must be ready, shortest first: in a short one, a process on a busy machine may not have got far enough. */
const BOUNDS = ['2s', '20s', '100s'];

/**
 * Reloads an app whose new version does not get ready, with a time that is enough for what the version does.
 * @param {import('./sandbox.mjs').Sandbox} forkful
 * @param {string} app
 * @param {RegExp} said what the command says if the new version has come as far as it does
 * @returns what `fails` of the sandbox returns
 */
export async function failedReload(forkful, app, said) {
  let failed;
  for (const bound of BOUNDS) {
    failed = await forkful.fails(['reload', app, '--listen-timeout', bound]);
    if (said.test(failed.stdout + failed.stderr)) break;
  }
  return failed;
}
