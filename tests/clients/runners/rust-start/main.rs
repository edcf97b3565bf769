//! Starts a broker with the crate that the build has packed, prints its address, and stops it when stdin ends.

use minibroker::Broker;

fn main() {
    let mut broker = Broker::options().start().unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    });
    println!("{}", broker.bootstrap_servers);
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    broker.stop().unwrap();
}
