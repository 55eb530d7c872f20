// memory-limit: a cache fills the heap up to its limit. Start it with a small heap:
// --node-args="--max-old-space-size=128 --max-semi-space-size=16"
'use strict';

const { getHeapStatistics } = require('node:v8');

const { serve } = require('./server');

/** V8 adds this for young objects to the limit of --max-old-space-size. */
const YOUNG = 48 * 1024 * 1024;
/** How full the cache makes the heap. */
const FULL = 0.93;

const cache = [];

serve(() => {
  const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
  if (used < FULL * (limit - YOUNG)) cache.push(Array.from({ length: 8000 }, (_, i) => ({ i })));
  return cache.length;
});
