"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { start } = require("./start.js");

const KEY = Symbol.for("minibroker");

/**
 * A globalSetup of Jest and Vitest: starts the broker that `connect` returns, with the options that package.json has
 * under "minibroker". A run that watches files keeps it, and with CONTROL there is one already.
 */
module.exports = async function setup(project) {
  if (process.env.CONTROL && !globalThis[KEY]) return undefined;
  const manifest = path.join(project.rootDir ?? project.config.root, "package.json");
  const options = fs.existsSync(manifest) ? JSON.parse(fs.readFileSync(manifest, "utf8")).minibroker : {};
  const broker = (globalThis[KEY] ??= await start(options));
  await broker.control.reset();
  Object.assign(process.env, { BOOTSTRAP_SERVERS: broker.bootstrapServers, CONTROL: broker.control.url });
  if (broker.registryUrl) process.env.REGISTRY = broker.registryUrl;
  if (options?.token) process.env.CONTROL_TOKEN = options.token;
  return () => broker.stop(); // Vitest calls it. Jest does not, and the broker ends with its process.
};
