"""Sockets: where a broker listens, whom it takes in, and how answers leave."""
