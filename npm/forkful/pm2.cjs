'use strict';
// What `require('pm2')` gives, with Forkful behind it. See README.md for what is the same and what is not.
const { Pm2 } = require('./lib/pm2/pm2.cjs');

const pm2 = new Pm2();
pm2.custom = Pm2;

module.exports = pm2;
