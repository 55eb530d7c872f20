// garbage-collection: every answer makes a long list of small objects, and the lists of the last answers are kept. The collector
// follows a list one object after the other, again and again.
'use strict';

const { serve } = require('./server');

/** Answers whose lists are still referenced. */
const RECENT = 24;
const recent = [];

serve(() => {
  let list = null;
  for (let i = 0; i < 20_000; i += 1) list = { next: list, i };
  recent.push(list);
  if (recent.length > RECENT) recent.shift();
  return recent.length;
});
