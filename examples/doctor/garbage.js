// garbage-collection: every answer makes many small objects that live a little longer than the request, so that the collector
// of young objects copies them again and again.
'use strict';

const { serve } = require('./server');

/** Answers whose objects are still referenced. */
const RECENT = 24;
const recent = [];

serve(() => {
  const objects = [];
  for (let i = 0; i < 15_000; i += 1) objects.push({ i, name: { text: [i] } });
  recent.push(objects);
  if (recent.length > RECENT) recent.shift();
  return objects.length;
});
