package minibroker.control;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.TestTemplate;

/**
 * A test that runs under chaos from seed after seed, each time after a reset. It takes the place of {@code @Test} in a
 * class with {@link MinibrokerTest}.
 *
 * <p>The system property {@code minibroker.chaos.seed} runs one seed.
 */
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
@TestTemplate
public @interface KafkaChaos {
    /** Returns the number of seeds, from 0 on. */
    int runs() default 20;

    String profile() default "default";

    /** Returns the only misbehaviours to use, instead of those of the profile. */
    String[] only() default {};

    String[] without() default {};
}
