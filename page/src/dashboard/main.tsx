// The dashboard's start: a session first, then the views.

import { render } from 'preact';
import '../style.css';
import './dashboard.css';
import { begin, use } from './session';
import { Shell } from './Shell';
import { follow } from './stream';

function Locked({ reason }: { reason: string }) {
  return (
    <main>
      <h1>Forkful's dashboard</h1>
      <p class="warning" role="alert">No session: {reason}.</p>
      <p class="detail"><code>forkful dashboard</code> prints a link that works once.</p>
    </main>
  );
}

async function start(root: HTMLElement): Promise<void> {
  root.textContent = '';
  try {
    use(await begin());
  } catch (error) {
    render(<Locked reason={error instanceof Error ? error.message : String(error)} />, root);
    return;
  }
  render(<Shell />, root);
  follow();
}

// A link that is opened in a tab with the dashboard only changes the fragment.
addEventListener('hashchange', () => { if (location.hash.startsWith('#token=')) location.reload(); });

const root = document.getElementById('page');
if (root) void start(root);
