package control

// Version is the version of minibroker that this client belongs to.
const Version = "0.1.0"
