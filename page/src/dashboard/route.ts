// Routes of the page, in the fragment of its address: `#/app/web/3`, `#/logs?app=web`.

import { useEffect, useState } from 'preact/hooks';

export type Route = { path: string[]; query: URLSearchParams };

function read(): Route {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  const parts = path.split('/').filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { path: parts, query: new URLSearchParams(query) };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const change = () => setRoute(read());
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  return route;
}

export const to = (...path: (string | number)[]): string => `#/${path.map((part) => encodeURIComponent(part)).join('/')}`;
