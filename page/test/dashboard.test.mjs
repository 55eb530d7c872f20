// The dashboard in a real browser, against a real daemon with real workers.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { launch, skip } from './browser.mjs';
import { binary, Daemon, HOSTILE, open } from './dashboard.mjs';
import * as documents from './documents.mjs';
import { historyOf } from './history.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Where pictures for the documentation go, when `UPDATE_DOCS` says so. */
const docs = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../docs');
/** Pictures on pages are small. */
const PICTURE_BYTES_MAX = 150_000;
const WORKERS = 8;

const reason = skip || (existsSync(binary) ? false : `${binary} is not built`);
if (reason && reason !== skip) console.error(`\n!! ${reason}: the dashboard is NOT tested. cargo build --release\n`);

describe('the dashboard', { skip: reason }, () => {
  let browser;
  let daemon;
  before(async () => {
    daemon = new Daemon();
    daemon.start('web', 2);
    daemon.start('api', 1);
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    daemon?.close();
  });

  /** Gives the page the history of a day in which much has happened. */
  const withHistory = (page) => page.route('**/api/history*', (route) => route.fulfill({ json: historyOf(new URL(route.request().url()).searchParams, WORKERS) }));

  /** Opens the page with a fresh link, does something there, and holds it against what is true of every page. */
  async function visit(what, { options = {}, control = false, reports, prepare = withHistory } = {}) {
    const url = daemon.link(...(control ? ['--control'] : []), ...(reports ? ['--reports', reports] : []));
    const { page, context, said, foreign } = await open(browser, url, { ...options, prepare });
    await page.waitForSelector('.connection.live');
    await what(page, url);
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.deepEqual(foreign, []);
    assert.deepEqual(said, []);
    await context.close();
  }

  const row = (name) => `tbody tr:has(th a:text-is("${name}"))`;

  /** Faults that axe-core calls serious or worse. Its code goes in by the debugger: the page's policy lets in none. */
  async function faults(page) {
    const session = await page.context().newCDPSession(page);
    await session.send('Runtime.evaluate', { expression: axe });
    const { result } = await session.send('Runtime.evaluate', {
      expression: `axe.run().then(({ violations }) => JSON.stringify(violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
        .map(({ id, nodes }) => [id, nodes.map(({ html }) => html.slice(0, 200))])))`,
      awaitPromise: true, returnByValue: true,
    });
    return JSON.parse(result.value);
  }

  /** Chooses the plots of a day, and waits for them. Those of the range before go once the day is asked for. */
  async function chooseDay(page) {
    const answered = page.waitForResponse((response) => new URL(response.url()).searchParams.get('step') === '240');
    await page.click('button:text-is("24 h")');
    await answered;
    await page.waitForFunction(() => document.querySelectorAll('figure.plot canvas').length >= 11);
  }

  /** Waits until a plot's drawing has pixels that are neither empty nor grey: a canvas is there before its drawing is, and is replaced with new data. */
  const drawn = (page, figure) => page.waitForFunction((plot) => {
    const canvas = plot.querySelector('canvas');
    if (!canvas?.width || !canvas.height) return false;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let pixels = 0;
    for (let index = 0; index < data.length; index += 4) {
      const [red, green, blue, alpha] = data.slice(index, index + 4);
      if (alpha > 128 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) pixels += 1;
    }
    // Nothing was throttled: a line at zero has few pixels.
    return pixels > 20;
  }, figure, { polling: 100 });

  const VIEWS = [['', 'Apps'], ['app/web', 'web'], ['app/web/0', 'web, worker 0'], ['logs', 'Logs'], ['events', 'Events'], ['stalls', 'Stalls'], ['reports', 'Reports']];

  for (const [name, options] of Object.entries({
    'wide and light': {},
    'on a phone, dark, without motion': { viewport: { width: 360, height: 740 }, colorScheme: 'dark', reducedMotion: 'reduce' },
  })) {
    test(`each view is whole and accessible: ${name}`, async () => {
      await visit(async (page) => {
        for (const [place, heading] of VIEWS) {
          await page.evaluate((to) => { location.hash = `#/${to}`; }, place);
          await page.waitForSelector(`h1:has-text("${heading}")`);
          await page.waitForFunction(() => document.querySelector('main').textContent.length > 20);
          assert.deepEqual(await faults(page), [], place);
          const { wide, narrow } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, narrow: document.documentElement.clientWidth }));
          assert.ok(wide <= narrow, `${place} is ${wide} wide on ${narrow}`);
        }
      }, { options });
    });
  }

  test('what is shown is live: a worker that crashes appears, with its new process', async () => {
    await visit(async (page) => {
      await page.waitForSelector(`${row('api')} >> text=1 of 1`);
      const before = Number(await page.textContent(`${row('api')} td[data-label=Restarts]`));
      const [{ workers: [{ pid }] }] = daemon.list().filter(({ definition }) => definition.name === 'api');
      process.kill(pid, 'SIGKILL');
      await page.waitForFunction((rule) => Number(document.querySelector(rule.row)?.textContent) > rule.before,
        { row: 'tbody tr:last-child td[data-label=Restarts]', before });
      await page.click('nav >> text=Events');
      await page.waitForSelector('.events .bad:has-text("api, worker 0 crashed"):has-text("SIGKILL")');
      await page.click('nav >> text=Apps');
      await page.waitForSelector(`${row('api')} >> text=online`);
    });
  });

  test('plots: a day of eight workers, each with its numbers as a table', async (t) => {
    await visit(async (page) => {
      await page.click(`${row('web')} a`);
      await page.waitForSelector('h1:has-text("web")');
      const began = Date.now();
      await chooseDay(page);
      t.diagnostic(`a day of ${WORKERS} workers was drawn after ${Date.now() - began} ms`);
      const figures = await page.$$('figure.plot');
      const names = await page.$$eval('figure.plot h3', (all) => all.map((one) => one.textContent));
      for (const wanted of ['Where the time of the event loop goes', 'Event loop of each worker', 'Requests', 'Latency', 'Memory', 'Open connections', 'Thread pool, busy', 'Throttled by the CPU quota', 'Pressure']) {
        assert.ok(names.includes(wanted), `${wanted} in ${names.join(', ')}`);
      }
      for (const [index, figure] of figures.entries()) {
        await drawn(page, figure).catch((error) => assert.fail(`${names[index]} is not drawn: ${error.message}`));
        await (await figure.$('summary')).click();
        await figure.waitForSelector('tbody tr:nth-child(20)');
        assert.ok((await figure.$eval('[role=img]', (drawing) => drawing.getAttribute('aria-label'))).length > names[index].length + 2, names[index]);
      }
      assert.deepEqual(await faults(page), []);
    });
  });

  test('plots of what the daemon has kept itself', async () => {
    await visit(async (page) => {
      await page.waitForSelector('figure.plot:has-text("Where the time of the event loop goes")');
      await page.waitForSelector('figure.plot:has-text("Memory")');
      await page.click('figure.plot:has-text("Memory") summary');
      await page.waitForSelector('figure.plot:has-text("Memory") td:has-text("MiB")');
    }, { prepare: null });
  });

  test('a crash is marked on the plots', async () => {
    await visit(async (page) => {
      await page.click(`${row('api')} a`);
      await page.waitForSelector('figure.plot');
      const [{ workers: [{ pid }] }] = daemon.list().filter(({ definition }) => definition.name === 'api');
      process.kill(pid, 'SIGKILL');
      await page.waitForFunction(() => [...document.querySelectorAll('figure.plot')].filter((plot) => plot.textContent.includes('✕ crash')).length >= 7);
    });
  });

  test('deployments and crashes of before the page was opened are marked and listed, with their details', async () => {
    daemon.start('fragile', 1);
    daemon.deploy('fragile', '3f2a9c1 Faster search');
    await daemon.request('fragile', '/crash');
    await daemon.until(() => daemon.incidents('fragile').length > 1);
    await visit(async (page) => {
      await page.click(`${row('fragile')} a`);
      await page.waitForSelector('figure.plot .note a:has-text("✕ crash")');
      await page.waitForSelector('figure.plot .note a:has-text("● deployed")');
      await page.waitForSelector('.events li:has-text("fragile was deployed: 3f2a9c1 Faster search")');
      await page.click('nav >> text=Events');
      await page.waitForSelector('.events .bad:has-text("fragile, worker 0 crashed"):has-text("a planned crash")');
      await page.click('.events .bad:has-text("fragile") >> text=details');
      await page.waitForSelector('h1:has-text("Incident")');
      await page.waitForSelector('dt:text-is("Exit code") + dd:has-text("1")');
      await page.waitForSelector('.lines .line:has-text("Error: a planned crash")');
      assert.deepEqual(await faults(page), []);
      assert.equal(await page.getAttribute('nav a:text-is("Events")', 'aria-current'), 'page');
    });
    daemon.forkful('delete', 'fragile');
  });

  test('what limits a busy app is told, with what to do', async () => {
    daemon.start('slow', 1);
    const end = daemon.load('slow', '/block', 3);
    await visit(async (page) => {
      await page.waitForSelector(`${row('slow')} .why:has-text("blocked in synchronous calls")`);
      await page.click(`${row('slow')} a`);
      await page.waitForSelector('.verdict .headline:has-text("blocked in synchronous calls")');
      await page.waitForSelector('.verdict li:has-text("asynchronous form")');
      await page.waitForSelector('.verdict .note:has-text("standStill (app.js:"):has-text("for GET /block")');
      assert.deepEqual(await faults(page), []);
    });
    await end();
    daemon.forkful('delete', 'slow');
  });

  test('a change by the doctor is marked, and one plot has the time before and after it', async () => {
    daemon.start('slow', 1);
    const end = daemon.load('slow', '/read', 16);
    const change = 'forkful reload slow --env UV_THREADPOOL_SIZE=16';
    await visit(async (page) => {
      await page.click(`${row('slow')} a`);
      await page.click('figure.plot:has(h3:text-is("Requests")) summary');
      await page.waitForFunction(() => [...document.querySelectorAll('figure.plot details[open] tbody tr td:nth-of-type(1)')].some(({ textContent }) => Number.parseFloat(textContent) > 0));
      // As the command does it; what the doctor says of an app depends on how busy the machine is.
      const order = async (fix) => {
        const { status, body } = await daemon.reload('slow', { trial: 'a-trial', ...fix });
        assert.equal(status, 200, body);
      };
      await order({ step: 'try', reason: `${change}: slow waits`, commands: { keep: change, undo: 'forkful reload slow --env UV_THREADPOOL_SIZE=4' } });
      await page.waitForSelector('figure.plot:has-text("Requests") .note a:has-text("◆ fix tried")');
      // The newest row is the first one.
      await page.waitForFunction(() => {
        const rows = [...document.querySelectorAll('figure.plot details[open] tbody tr')].map((one) => [...one.children].map(({ textContent }) => textContent));
        const at = rows.findIndex((cells) => cells.at(-1).includes('fix tried'));
        const hasRequests = ([, requests]) => Number.parseFloat(requests) > 0;
        return at > 0 && rows.slice(0, at).some(hasRequests) && rows.slice(at + 1).some(hasRequests);
      });
      assert.equal(await page.locator('figure.plot:has-text("Requests") .note a:has-text("◇ fix reverted")').count(), 0);
      await order({ step: 'revert', reason: 'it did not help' });
      await page.waitForSelector('figure.plot:has-text("Requests") .note a:has-text("◇ fix reverted")');
      assert.deepEqual(await faults(page), []);
      await page.click('figure.plot .note a:has-text("◆ fix tried") >> nth=0');
      await page.waitForSelector('h1:has-text("Incident")');
      await page.waitForSelector(`main:has-text("slow was changed by forkful doctor --fix"):has-text("${change}")`);
    }, { prepare: null });
    await end();
    daemon.forkful('delete', 'slow');
  });

  test('stalls are listed with their route, function and worker', async () => {
    daemon.start('slow', 1);
    await visit(async (page) => {
      await page.click(`${row('slow')} a`);
      await page.click('text=Stalls of slow');
      await page.waitForSelector('h1:text-is("Stalls")');
      const end = daemon.load('slow', '/block', 2);
      await page.waitForSelector('section:has(h2:text-is("Places, the most expensive first")) tr:has-text("GET /block"):has-text("standStill (app.js:")');
      const last = 'section:has(h2:text-is("Last stalls")) tr:has-text("GET /block"):has-text("standStill (app.js:")';
      await page.waitForSelector(last);
      await end();
      assert.equal(await page.textContent(`${last} a >> nth=0`), 'worker 0');
      assert.match(await page.textContent(`${last} td[data-label=Duration] >> nth=0`), /^\d[\d,.]* m?s$/);
      assert.deepEqual(await faults(page), []);
      await page.selectOption('label:has-text("App") select', 'web');
      await page.waitForFunction(() => document.querySelector('main .headline') && !document.querySelector('main').textContent.includes('GET /block'));
    });
    daemon.forkful('delete', 'slow');
  });

  test('autoscaling: the bounds, and the last decision with its reason', async () => {
    daemon.start('elastic', '1..2');
    await visit(async (page) => {
      await page.waitForSelector(`${row('elastic')} td[data-label=Workers]:has-text("1–2 by load")`);
      await page.click(`${row('elastic')} a`);
      await page.waitForSelector('.autoscaling:has-text("follows the load: 1 to 2."):has-text("It has not changed yet.")');
      const end = daemon.load('elastic', '/block', 4);
      // A machine with other work has no room for another worker: that is a decision too.
      await page.waitForSelector('.autoscaling:has-text("Last decision"):has-text("busy")');
      await end();
      assert.deepEqual(await faults(page), []);
      await page.click('.autoscaling >> text=details');
      await page.waitForSelector('h1:has-text("Incident")');
    });
    daemon.forkful('delete', 'elastic');
  });

  test('pictures for the documentation', async () => {
    for (const colorScheme of ['light', 'dark']) {
      await visit(async (page) => {
        await chooseDay(page);
        const file = process.env.UPDATE_DOCS && colorScheme === 'light' ? { path: path.join(docs, 'dashboard.png') } : {};
        const picture = await page.screenshot({ ...file, animations: 'disabled' });
        assert.ok(picture.length < PICTURE_BYTES_MAX, `${picture.length} bytes`);
      }, { options: { colorScheme, viewport: { width: 1100, height: 880 } } });
    }
  });

  test('reports of the lab are opened from files, and hostile ones do no harm', async () => {
    await visit(async (page) => {
      await page.click('nav >> text=Reports');
      const file = (name, content) => ({ name, mimeType: 'application/json', buffer: Buffer.from(content) });
      const made = { compare: documents.compareDocument(), tune: documents.tuneDocument(), hostile: documents.hostileDocument() };
      await page.setInputFiles('input[type=file]', [
        ...Object.entries(made).map(([name, document]) => file(`${name}.json`, JSON.stringify(document))), file('none.json', 'not a report'),
      ]);
      await page.waitForSelector('.warning:has-text("none.json: it is no report")');
      for (const name of Object.keys(made)) {
        await page.click(`.reports button:text-is("${name}.json")`);
        await page.waitForFunction(() => document.querySelectorAll('.report table, .report figure.plot').length > 0);
        assert.deepEqual(await faults(page), [], name);
      }
      assert.equal(await page.evaluate(() => Object.keys(window).filter((key) => /^(harmed|pwned|xss)/i.test(key)).length), 0);
    });
  });

  test('reports in a folder are listed, opened and listed again, and hostile ones do no harm', async () => {
    const folder = path.join(daemon.folder, 'results');
    mkdirSync(folder);
    const write = (name, content) => writeFileSync(path.join(folder, name), content);
    write('compare.json', JSON.stringify(documents.compareDocument()));
    write('hostile <b>1.json', JSON.stringify(documents.hostileDocument()));
    write('none.json', 'not a report');
    write('notes.txt', 'no report');
    await visit(async (page) => {
      await page.click('nav >> text=Reports');
      const names = () => page.$$eval('.reports.saved button', (all) => all.map(({ textContent }) => textContent).sort());
      await page.waitForSelector('.reports.saved button');
      assert.deepEqual(await names(), ['compare.json', 'hostile <b>1.json', 'none.json']);
      for (const name of ['compare.json', 'hostile <b>1.json']) {
        await page.click(`.reports.saved button:text-is("${name}")`);
        await page.waitForSelector(`.reports:not(.saved) button[aria-pressed=true]:text-is("${name}")`);
        await page.waitForFunction(() => document.querySelectorAll('.report table, .report figure.plot').length > 0);
        assert.deepEqual(await faults(page), [], name);
      }
      assert.equal(await page.evaluate(() => Object.keys(window).filter((key) => /^(harmed|pwned|xss)/i.test(key)).length), 0);
      await page.click('.reports.saved button:text-is("none.json")');
      await page.waitForSelector('.warning:has-text("none.json: it is no report")');
      write('tune.json', JSON.stringify(documents.tuneDocument()));
      await page.click('button:text-is("Look again")');
      await page.waitForSelector('.reports.saved button:text-is("tune.json")');
    }, { reports: folder });
    await visit(async (page) => {
      await page.click('nav >> text=Reports');
      await page.waitForSelector('h1:text-is("Reports")');
      assert.equal(await page.locator('.reports.saved').count(), 0);
    });
  });

  test('hostile lines of a log stay text', async () => {
    await visit(async (page) => {
      await page.click('nav >> text=Logs');
      await page.waitForFunction(() => document.querySelectorAll('.log .line').length >= 10);
      const texts = await page.$$eval('.log .text', (lines) => lines.map((line) => line.textContent));
      assert.ok(texts.includes(HOSTILE[0]) && texts.includes(HOSTILE[1]), texts.join('\n'));
      assert.ok(texts.includes('red  link '), texts.join('\n'));
      assert.ok(texts.includes('turned ⟨U+202E⟩txt.exe⟨U+2066⟩ round'), texts.join('\n'));
      assert.equal(await page.$$eval('.log .line *', (all) => all.filter((one) => !['SPAN', 'BDI', 'MARK'].includes(one.tagName)).length), 0);
      assert.ok(await page.$('.log .ansi-1:text-is("red")'));
      // Filter, search, streams.
      await page.fill('label:has-text("Filter") input', '/TURNED/i');
      await page.waitForFunction(() => [...document.querySelectorAll('.log .text')].every((line) => line.textContent.startsWith('turned')));
      await page.fill('label:has-text("Filter") input', '');
      await page.fill('label:has-text("Search") input', 'SCRIPT');
      await page.waitForSelector('.log mark:text-is("script")');
      await page.selectOption('label:has-text("Stream") select', 'err');
      await page.waitForFunction(() => document.querySelectorAll('.log .line').length > 0 && document.querySelectorAll('.log .line:not(.err)').length === 0);
    });
  });

  test('everything is reached by keyboard', async () => {
    await visit(async (page) => {
      const focused = () => page.evaluate(() => document.activeElement?.textContent ?? '');
      await page.waitForSelector(row('web'));
      await page.keyboard.press('Tab');
      assert.equal(await focused(), 'Skip to the content');
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => document.activeElement?.tagName === 'H1');
      for (let presses = 0; (await focused()) !== 'web'; presses += 1) {
        assert.ok(presses < 10, 'the app is not reached');
        await page.keyboard.press('Tab');
      }
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.notEqual(outline, 'none', 'the focus is seen');
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => document.activeElement?.tagName === 'H1' && document.activeElement.textContent.startsWith('web'));
      await page.waitForFunction(() => document.title.startsWith('web'));
    });
  });

  /** Hides the page as another tab does, or shows it again. */
  const hide = (page, isHidden) => page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
    document.dispatchEvent(new Event('visibilitychange'));
  }, isHidden);

  test('a link that is opened in the tab of the dashboard begins a new session', async () => {
    await visit(async (page) => {
      const shown = page.waitForSelector('footer:has-text("actions are allowed")');
      const token = daemon.link('--control').split('#')[1];
      await page.evaluate((fragment) => { location.hash = fragment; }, token);
      await shown;
      await page.waitForSelector('.connection.live');
      assert.ok(!page.url().includes('token'), page.url());
    });
  });

  test('the log: the reader leaves the end by scrolling, a hidden page reads nothing, and only faults are announced', async () => {
    await visit(async (page) => {
      // The lines of a log that goes on, as many at a time as are asked for.
      await page.evaluate(() => {
        const real = window.fetch;
        window.readers = [];
        window.fetch = (url, options) => {
          if (!String(url).startsWith('/api/logs')) return real(url, options);
          const body = new ReadableStream({ start: (reader) => { window.readers.push({ reader, signal: options.signal }); } });
          return Promise.resolve(new Response(body));
        };
        window.lines = 0;
        window.write = (many) => {
          const text = Array.from({ length: many }, () => `${JSON.stringify({ app: 'web', line: `line ${window.lines++}`, stream: 'out', pm_id: 0, at_ms: Date.now() - 36 * 3_600_000 })}\n`).join('');
          window.readers.at(-1).reader.enqueue(new TextEncoder().encode(text));
        };
      });
      await page.click('nav >> text=Logs');
      const write = async (many) => {
        await page.evaluate((number) => window.write(number), many);
        await page.waitForFunction(() => document.querySelector('.log .line:last-child .text')?.textContent === `line ${window.lines - 1}`);
      };
      await page.waitForFunction(() => window.readers.length === 1);
      await write(300);
      assert.equal(await page.textContent('.count'), '300 lines');
      assert.equal(await page.textContent('main p[role=status]'), '');
      assert.match(await page.textContent('.log .where >> nth=0'), /^\d{1,2} \w+ \d{4}, \d\d:\d\d:\d\d web 0$/, 'a line of another day has its day');
      // Lines that are dropped at the top scroll, too.
      for (const many of [300, 3000, 700]) await write(many);
      const isAtEnd = () => page.$eval('.log', (log) => log.scrollHeight - log.clientHeight - log.scrollTop < 2);
      assert.ok(await isAtEnd());
      assert.ok(await page.isChecked('.check input'));
      await page.$eval('.log', (log) => { log.scrollTop = 100; });
      await page.waitForSelector('.check input:not(:checked)');
      await write(1);
      assert.ok(!await isAtEnd());
      await page.check('.check input');
      await page.waitForFunction(() => { const log = document.querySelector('.log'); return log.scrollHeight - log.clientHeight - log.scrollTop < 2; });
      await hide(page, true);
      await page.waitForFunction(() => window.readers[0].signal.aborted);
      assert.equal(await page.evaluate(() => window.readers.length), 1);
      await hide(page, false);
      await page.waitForFunction(() => window.readers.length === 2);
      await page.fill('label:has-text("Filter") input', '/(/');
      await page.waitForSelector('main p[role=status]:has-text("This pattern is not complete.")');
    });
  });

  test('values of another day have their day', async () => {
    const later = 36 * 3_600_000;
    // The page asks for times of its own clock, and gets those of ours.
    const prepare = async (page) => {
      await page.clock.setFixedTime(Date.now() + later);
      await page.route('**/api/history*', (route) => {
        const query = new URL(route.request().url()).searchParams;
        for (const name of ['from', 'to']) query.set(name, String(Number(query.get(name)) - later));
        return route.fulfill({ json: historyOf(query, WORKERS) });
      });
    };
    await visit(async (page) => {
      await page.click(`${row('web')} a`);
      await page.waitForSelector('figure.plot details.numbers');
      await page.$$eval('figure.plot details.numbers', (all) => all.forEach((one) => { one.open = true; }));
      await page.waitForFunction(() => {
        const all = document.querySelectorAll('figure.plot details.numbers').length;
        const tables = [...document.querySelectorAll('figure.plot details[open] tbody')];
        const hasDay = (table) => /^\d{1,2} \w+ \d{4}, \d\d:/.test(table.lastElementChild?.firstElementChild?.textContent ?? '');
        return all > 0 && tables.length === all && tables.every(hasDay);
      });
      await page.click('th a:text-is("worker 0")');
      assert.match(await page.textContent('dt:text-is("Started") + dd'), /^\d{1,2} \w+ \d{4}, \d\d:/);
    }, { prepare });
  });

  test('it acts only with control, and asks first', async () => {
    await visit(async (page) => {
      await page.click(`${row('web')} a`);
      await page.waitForSelector('h1:has-text("web")');
      assert.equal(await page.$$eval('.actions button', (buttons) => buttons.length), 0);
    });
    await visit(async (page) => {
      await page.click(`${row('web')} a`);
      await page.click('.actions >> text=scale');
      await page.fill('dialog input', '3');
      assert.deepEqual(await faults(page), []);
      await page.click('dialog .yes');
      await page.waitForSelector('.told:has-text("scale of web is done")');
      await page.waitForSelector('th a:text-is("worker 2")');
      const isFocused = (name) => page.waitForFunction((text) => !document.querySelector('dialog') && document.activeElement?.textContent === text, name);
      await isFocused('scale');
      await page.click('.actions >> text=reload');
      await page.waitForSelector('dialog[open]');
      await page.keyboard.press('Escape');
      await isFocused('reload');
      await page.click('.actions >> text=restart');
      await page.click('dialog >> text=cancel');
      await isFocused('restart');
      await page.click('.actions >> text=stop');
      await page.click('dialog .yes');
      await page.waitForSelector('h1 >> text=stopped');
      await isFocused('stop');
      // The heading has changed since the view was opened.
      await page.waitForFunction(() => document.title === `${document.querySelector('h1').textContent} · Forkful` && document.title.includes('stopped'));
    }, { control: true });
    daemon.forkful('start', 'web');
  });

  test('a link works once, stays in no address, and the session stays in its tab', async () => {
    const url = daemon.link();
    const first = await open(browser, url);
    await first.page.waitForSelector('.connection.live');
    assert.ok(!first.page.url().includes('token'), first.page.url());
    await first.page.reload();
    await first.page.waitForSelector('.connection.live');
    const second = await open(browser, url);
    await second.page.waitForSelector('text=this link was used already, or is too old');
    const { origin } = new URL(url);
    const other = await first.context.newPage();
    await other.goto(origin);
    await other.waitForSelector('text=this page needs a link with a token');
    assert.equal(await other.evaluate(async () => (await fetch('/api/logs')).status), 401, 'the cookie alone is not enough');
    assert.equal(await other.evaluate(() => document.cookie), '', 'no script can read it');
    await first.context.close();
    await second.context.close();
    const { workers } = daemon.list()[0];
    assert.ok(workers.length > 0);
    for (const file of ['daemon.log', 'forkful.log'].map((name) => `${daemon.env.FORKFUL_HOME}/${name}`).filter(existsSync)) {
      assert.ok(!readFileSync(file, 'utf8').includes(url.split('token=')[1]), `${file} holds the token`);
    }
  });
});
