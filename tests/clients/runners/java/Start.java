package minibroker.control;

/** Prints the program that would start a broker; starts one and prints its address; or stays with it until it is killed. */
final class Start {
    public static void main(String[] arguments) throws InterruptedException {
        if (arguments.length == 0) {
            System.out.println(new Program(System.getenv()).find());
            return;
        }
        try (Minibroker broker = Minibroker.options().start()) {
            System.out.println(broker.bootstrapServers());
            if (arguments[0].equals("stay")) {
                Thread.sleep(Long.MAX_VALUE);
            }
        }
    }
}
