module example.com/minibroker

go 1.22
