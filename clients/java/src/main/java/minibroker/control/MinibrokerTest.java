package minibroker.control;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A class of tests that use a broker. Classes with equal annotations share one, which runs until the JVM ends.
 *
 * <p>Constructors and methods get it as a parameter of the type {@link Minibroker} or {@link ControlClient}. Spring's
 * and Micronaut's tests get its address as their own property.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(MinibrokerExtension.class)
public @interface MinibrokerTest {
    /** Topics to create at the start and again at each reset: NAME[:PARTITIONS[:KEY=VALUE,...]]. */
    String[] topics() default {};

    /** Arguments of `minibroker serve`. */
    String[] arguments() default {};

    /** Whether the broker is reset before each test. Only the topics of the start exist then, without records. */
    boolean reset() default false;
}
