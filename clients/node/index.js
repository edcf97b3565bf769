"use strict";

const { ControlClient, ControlError, bytes } = require("./client.js");
const { connect, start } = require("./start.js");

module.exports = { ControlClient, ControlError, bytes, connect, start };
