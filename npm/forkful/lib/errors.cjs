'use strict';

/**
 * A fault that Forkful explains. `code` tells kinds apart: `BAD_REQUEST`, `NO_SUCH_TARGET`, `CONFLICT`, `INTERNAL` (from
 * the daemon), `FAILED` (an app did not do what was asked; see `outcomes`), `NO_DAEMON`,
 * `FOREIGN_HOME` (another user owns the home or may write to it), `OTHER_VERSION`, `NO_BINARY`, `LOST`.
 */
class ForkfulError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ hint?: string | null, outcomes?: object[], undone?: object[], cause?: unknown }} [more]
   */
  constructor(code, message, { hint, outcomes, undone, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'ForkfulError';
    this.code = code;
    if (hint) this.hint = hint;
    if (outcomes) this.outcomes = outcomes;
    if (undone) this.undone = undone;
  }
}

module.exports = { ForkfulError };
