"use strict";

const { ControlClient, ControlError, bytes } = require("./client.js");
const { serve } = require("./serve.js");

module.exports = { ControlClient, ControlError, bytes, serve };
