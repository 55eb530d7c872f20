// Paths in this repository.

import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const BENCH = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
export const REPOSITORY = path.dirname(BENCH);
/** Raw data, not committed. */
export const RESULTS = path.join(BENCH, 'results');
/** Small summaries, committed: what the tables of docs/BENCHMARKS.md show. */
export const SUMMARIES = path.join(BENCH, 'summaries');
