package minibroker.control;

/** Prints the program that would start a broker, or with an argument starts one and prints its address. */
final class Start {
    public static void main(String[] arguments) {
        if (arguments.length == 0) {
            System.out.println(new Program(System.getenv()).find());
            return;
        }
        try (Minibroker broker = Minibroker.options().start()) {
            System.out.println(broker.bootstrapServers());
        }
    }
}
