package minibroker

// Version is the version of minibroker that this client belongs to.
const Version = "1.1.0"
