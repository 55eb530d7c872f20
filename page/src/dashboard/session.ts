// The page's session: the link's token, which is in the fragment, is exchanged once. The proof stays in this tab; the
// other secret is a cookie that scripts cannot read.

const KEY = 'forkful-session';
export type Session = { proof: string; control: boolean; reports?: boolean; version: string };

const isSession = (value: unknown): value is Session =>
  typeof value === 'object' && value !== null && typeof (value as Session).proof === 'string';

/** The reason of a failure, as a sentence. */
export class Refused extends Error {
  constructor(message: string, readonly status: number) { super(message); }
}

async function refusal(response: Response): Promise<Refused> {
  let text = `the daemon answers ${response.status}`;
  try {
    const { error, hint } = await response.json() as { error?: string; hint?: string };
    if (typeof error === 'string') text = typeof hint === 'string' ? `${error}. ${hint}` : error;
  } catch { /* Not JSON: use the status. */ }
  return new Refused(text, response.status);
}

export async function begin(): Promise<Session> {
  const token = /^#token=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (token === undefined) {
    const kept: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
    if (isSession(kept)) return kept;
    throw new Refused('this page needs a link with a token', 401);
  }
  // Before anything else, so that it stays neither in the address nor in the history.
  history.replaceState(null, '', '/#/');
  const response = await fetch('/session', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token }) });
  if (!response.ok) throw await refusal(response);
  const session: unknown = await response.json();
  if (!isSession(session)) throw new Refused('the daemon gave no session', 500);
  sessionStorage.setItem(KEY, JSON.stringify(session));
  return session;
}

let current: Session | undefined;
export const use = (session: Session): void => { current = session; };
export const session = (): Session => current ?? { proof: '', control: false, version: '' };

/** Sends a request to the daemon; throws an error with a sentence for the reader. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(`/api/${path}`, { ...init, headers: { ...init.headers, 'x-forkful-session': session().proof } });
  if (!response.ok) throw await refusal(response);
  return response;
}

export const post = (path: string, body: unknown): Promise<Response> =>
  ask(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

/** The lines of a body, as they arrive. */
export async function* linesOf(response: Response): AsyncGenerator<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
