// upstream: every answer waits for another service. UPSTREAM is its address; `slow-service.js` is one.
'use strict';

const http = require('node:http');

const { serve } = require('./server');

const UPSTREAM = process.env.UPSTREAM ?? 'http://127.0.0.1:8001/';
const agent = new http.Agent({ keepAlive: true });

serve(
  () =>
    new Promise((resolve, reject) => {
      const request = http.get(UPSTREAM, { agent }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk) => (text += chunk));
        response.on('end', () => resolve(text));
      });
      request.on('error', reject);
    }),
);
