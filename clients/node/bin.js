#!/usr/bin/env node
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { findProgram, hint } = require("./program.js");

const STOP = "--stop-with-stdin";

/** Runs the program with these arguments. The broker of `serve` ends with this process, however that ends. */
function run(args) {
  const program = findProgram();
  const isBroker = args[0] === "serve";
  const readsStdin = args.includes(STOP);
  const options = isBroker && !readsStdin ? [...args, STOP] : args;
  const child = spawn(program, options, { stdio: [isBroker ? "pipe" : "inherit", "inherit", "inherit"] });
  if (readsStdin) process.stdin.pipe(child.stdin);
  child.stdin?.on("error", () => {}); // It has ended.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    // A terminal sends SIGINT to both.
    process.on(signal, () => (isBroker ? child.stdin.end() : signal !== "SIGINT" && child.kill(signal)));
  }
  child.on("error", (error) => fail(`${program} does not start: ${error.message}; ${hint(program)}`));
  child.on("exit", (status, signal) => process.exit(signal ? 128 + constants.signals[signal] : status));
}

function fail(sentence) {
  console.error(`minibroker: ${sentence}`);
  process.exit(1);
}

try {
  run(process.argv.slice(2));
} catch (error) {
  fail(error.message.replace("minibroker: ", ""));
}
