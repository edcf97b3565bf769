// Runs the checks of a driver one after another and prints a line of JSON for each; drivers/harness.py says which.

"use strict";

const SECONDS = Number(process.env.CHECK_SECONDS ?? "300"); // so many that only what hangs reaches them
const SESSION_MS = 20_000;
const [, , bootstrap, prefix] = process.argv;

function that(so, found) {
  if (!so) {
    throw new Error(`found ${JSON.stringify(found, (_, value) => (typeof value === "bigint" ? `${value}` : value))}`.slice(0, 300));
  }
}

async function eventually(condition) {
  const deadline = Date.now() + SECONDS * 600;
  while (!(await condition())) {
    that(Date.now() < deadline, "it did not happen in time");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function run(checks) {
  const only = (process.env.ONLY ?? "").split(" ").filter(Boolean);
  const names = Object.keys(checks).filter((name) => only.length === 0 || only.includes(name));
  say({ checks: names });
  for (const name of names) {
    let error = "";
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`nothing came of it within ${SECONDS} s`)), SECONDS * 1000);
    });
    try {
      const check = Promise.resolve(checks[name](`${prefix}-${name}`));
      check.catch(() => undefined); // it may fail when nobody waits for it any more
      await Promise.race([check, late]);
    } catch (failure) {
      const causes = (failure.errors ?? [failure.cause]).filter(Boolean).map((cause) => `${cause.message}`);
      error = `${failure.name}: ${failure.message} ${causes.join("; ")}`;
    }
    clearTimeout(timer);
    say({ check: name, ok: error === "", error });
  }
  process.stdout.write("", () => process.exit(0)); // clients whose checks are left behind would hold the end up
}

process.on("unhandledRejection", () => undefined);

module.exports = { SESSION_MS, bootstrap, prefix, that, eventually, run };
