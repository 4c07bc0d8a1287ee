// Replaces the content every two seconds while somebody looks; without it, the page reloads as a whole.
"use strict";

const INTERVAL_MS = 2000;
const LIMIT_MS = 5000;

async function refresh() {
  // Nobody looks, or somebody copies text.
  if (document.hidden || String(getSelection())) return;
  const stale = document.getElementById("stale");
  try {
    const reply = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(LIMIT_MS) });
    if (!reply.ok) throw new Error(reply.status);
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    document.querySelector("main").replaceWith(page.querySelector("main"));
    document.title = page.title;
    stale.hidden = true;
  } catch {
    // The server has ended or hangs: what is shown is old.
    stale.hidden = false;
  }
}

async function run() {
  for (;;) {
    await new Promise((done) => setTimeout(done, INTERVAL_MS));
    await refresh();
  }
}

run();
