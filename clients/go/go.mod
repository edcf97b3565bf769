module minibroker/control

go 1.22
