// Stands in for Express where it is not installed: `get`, `listen`, `query`, `status` and `send`, as far as the
// experiments' apps use them. Results made with it say so.
'use strict';

const http = require('node:http');

function express() {
  const routes = new Map();
  const app = {
    get(path, handler) { routes.set(path, handler); return app; },
    listen(...args) { return http.createServer(serve).listen(...args); },
  };

  function serve(request, response) {
    const url = new URL(request.url, 'http://localhost');
    request.query = Object.fromEntries(url.searchParams);
    response.status = (code) => { response.statusCode = code; return response; };
    response.send = (body) => {
      const bytes = Buffer.from(String(body));
      response.setHeader('Content-Type', 'text/html; charset=utf-8');
      response.setHeader('Content-Length', bytes.length);
      response.end(bytes);
    };
    const fail = (error) => response.status(500).send(error.message);
    const handler = request.method === 'GET' ? routes.get(url.pathname) : undefined;
    if (!handler) return response.status(404).send(`Cannot ${request.method} ${url.pathname}`);
    try {
      return handler(request, response, fail);
    } catch (error) {
      return fail(error);
    }
  }

  return app;
}

module.exports = express;
