'use strict';

// The usual app, with what prom-client measures by default and a histogram of its own.
const { collectDefaultMetrics, Histogram } = require('../../tests/e2e/node_modules/prom-client');

collectDefaultMetrics();
const seconds = new Histogram({ name: 'job_duration_seconds', help: 'A job.', labelNames: ['kind'] });
setInterval(() => { for (const kind of ['mail', 'report', 'import']) seconds.observe({ kind }, Math.random()); }, 1000).unref();

require('./server.cjs');
