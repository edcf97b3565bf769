"use strict";

const { spawn } = require("node:child_process");
const { createInterface } = require("node:readline");
const { ControlClient } = require("./client.js");
const { version } = require("./package.json");
const { damage, findProgram, hint } = require("./program.js");

const START_MS = 60_000;
const STOP_MS = 30_000;
const KEPT_ERRORS = 8192;
const OPTIONS = ["command", "topics", "brokers", "registry", "token", "args", "stderr"];

function withTimeout(promise, milliseconds, onTimeout) {
  let timer;
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => resolve(onTimeout(reject)), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A `minibroker serve` started by this process. */
class Broker {
  #child;
  #ended;

  constructor(child, ended, words, control) {
    this.#child = child;
    this.#ended = ended;
    this.bootstrapServers = words.bootstrap;
    this.registryUrl = words.registry;
    this.control = control;
  }

  async stop() {
    this.#child.ref();
    this.#child.stdin.end();
    const reason = await withTimeout(this.#ended, STOP_MS, () => {
      this.#child.kill("SIGKILL");
      return this.#ended;
    });
    if (reason !== "exit status 0") throw new Error(`minibroker: the broker has ended with ${reason}`);
  }
}

async function start(options = {}) {
  const { command, topics = [], brokers = 1, registry = false, token, args = [], stderr = process.stderr, ...others } = options;
  const [unknown] = Object.keys(others);
  if (unknown) throw new TypeError(`minibroker: ${unknown}: start has no such option; it has ${OPTIONS.join(", ")}`);
  const [program, ...first] = command ?? [findProgram()];
  // Failed waits show the newest requests of the journal.
  const words = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--stop-with-stdin", "--journal"];
  words.push(...topics.flatMap((topic) => ["--topic", topic]), "--brokers", String(brokers));
  words.push(...(registry ? ["--registry", "127.0.0.1:0"] : []), ...args);
  const env = { ...process.env, ...(token ? { MINIBROKER_CONTROL_TOKEN: token } : {}) };
  const child = spawn(program, [...first, "serve", ...words], { env, stdio: ["pipe", "pipe", "pipe"] });
  let kept = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    kept = (kept + text).slice(-KEPT_ERRORS);
    stderr?.write(text);
  });
  child.stdin.on("error", () => {}); // The broker has ended, and `ended` has the reason.
  const ended = new Promise((resolve) => {
    child.on("error", (error) => resolve(error));
    child.on("close", (status, signal) => resolve(signal ? `signal ${signal}` : `exit status ${status}`));
  });
  const fail = (reason, advice = "") => new Error(`minibroker: ${program} ${reason}\n${kept}`.trim() + advice);
  const early = ended.then((reason) => {
    if (typeof reason === "string") throw fail(`serve has ended before it was ready, with ${reason}`, damage(program));
    throw fail(`does not start: ${reason.message}; ${hint(program)}`);
  });
  const readyLine = new Promise((resolve) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line.startsWith("minibroker ready:")) resolve(line);
    });
  });
  try {
    const line = await withTimeout(Promise.race([readyLine, early]), START_MS, (reject) =>
      reject(fail(`has not become ready in ${START_MS / 1000} s`)),
    );
    early.catch(() => {});
    const ready = Object.fromEntries(line.split(" ").map((word) => [word.split("=")[0], word.slice(word.indexOf("=") + 1)]));
    // Do not keep a process alive that never stops its broker. The broker ends when its stdin is closed.
    for (const each of [child, child.stdin, child.stdout, child.stderr]) each.unref?.();
    const control = new ControlClient(ready.control, { token });
    const about = await control.about();
    if (about.version !== version) throw fail(`has the version ${about.version}, and the package minibroker ${version}`);
    return new Broker(child, ended, ready, control);
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

/** Returns the broker that `minibroker/setup` has started for this test run, or the job that runs it. */
function connect() {
  const { BOOTSTRAP_SERVERS: bootstrapServers, CONTROL: url, CONTROL_TOKEN: token, REGISTRY: registryUrl } = process.env;
  if (url) return { bootstrapServers, registryUrl, control: new ControlClient(url, { token }) };
  throw new Error('minibroker: no broker was started for this run: its configuration needs globalSetup: "minibroker/setup"');
}

module.exports = { connect, start };
