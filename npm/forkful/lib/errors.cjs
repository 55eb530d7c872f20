'use strict';

/** The URL of the published docs/. */
const SITE = 'https://forkful.github.io/forkful/';
/** The page that explains the hints of an error code. */
const PAGES = {
  BAD_REQUEST: 'cli#which-apps-a-command-means',
  NO_SUCH_TARGET: 'cli#which-apps-a-command-means',
  CONFLICT: 'troubleshooting#another-command-is-under-way',
  INTERNAL: 'troubleshooting#the-daemon',
  FAILED: 'troubleshooting#an-app-does-not-start',
  NO_DAEMON: 'troubleshooting#the-daemon',
  LOST: 'troubleshooting#the-daemon',
  FOREIGN_HOME: 'troubleshooting#the-home-directory',
  OTHER_VERSION: 'update',
  NO_BINARY: 'install#the-program-is-not-found',
};

/**
 * An error with a code and a hint. The codes: `BAD_REQUEST`, `NO_SUCH_TARGET`, `CONFLICT`, `INTERNAL` (from
 * the daemon), `FAILED` (the command failed for an app; see `outcomes`), `NO_DAEMON`,
 * `FOREIGN_HOME` (another user owns the home or may write to it), `OTHER_VERSION`, `NO_BINARY`, `LOST`.
 */
class ForkfulError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ hint?: string | null, see?: string | null, outcomes?: object[], undone?: object[], cause?: unknown }} [more]
   */
  constructor(code, message, { hint, see, outcomes, undone, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'ForkfulError';
    this.code = code;
    if (hint) {
      this.hint = hint;
      this.see = see ?? `${SITE}${PAGES[code] ?? 'troubleshooting'}`;
    }
    if (outcomes) this.outcomes = outcomes;
    if (undone) this.undone = undone;
  }
}

module.exports = { ForkfulError };
