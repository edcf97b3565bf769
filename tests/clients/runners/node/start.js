// Starts a broker with the package that the build has packed, prints its address, and stops it when stdin ends.
const { start } = require("minibroker");

start().then(
  (broker) => {
    console.log(broker.bootstrapServers);
    process.stdin.on("end", () => broker.stop()).resume();
  },
  (error) => {
    console.error(error.message);
    process.exit(1);
  },
);
