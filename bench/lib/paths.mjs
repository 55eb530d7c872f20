// Paths in this repository.

import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const BENCH = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
export const REPOSITORY = path.dirname(BENCH);
/** Bun, which comes with the tests of the npm packages: `BUN` names another one. */
export const BUN = process.env.BUN ?? path.join(REPOSITORY, 'npm/test/node_modules/.bin/bun');
/** Raw data, not committed. */
export const RESULTS = path.join(BENCH, 'results');
/** Small summaries, committed: what the tables of docs/BENCHMARKS.md show. */
export const SUMMARIES = path.join(BENCH, 'summaries');
