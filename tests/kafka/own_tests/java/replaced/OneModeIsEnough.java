import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

import java.util.Arrays;

/**
 * Skips the invocations of @ClusterTest methods with combined nodes (a broker that is a controller, too) where there is
 * one with isolated nodes: minibroker has no controllers, so both are the same.
 */
public final class OneModeIsEnough implements ExecutionCondition {
    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        boolean isRepeated = context.getDisplayName().contains("Type=Raft-Combined")
            && context.getTestMethod().map(method -> Arrays.toString(method.getAnnotations())).filter(
                annotations -> annotations.contains("ClusterTest(") && !isOnlyCombined(annotations)).isPresent()
            && !isOnlyCombined(Arrays.toString(context.getRequiredTestClass().getAnnotations()));
        return isRepeated ? ConditionEvaluationResult.disabled("the same as with isolated nodes") : ConditionEvaluationResult.enabled("");
    }

    private static boolean isOnlyCombined(String annotations) {
        return annotations.matches("(?s).*types=\\{(\\w*\\.)*CO_KRAFT\\}.*");
    }
}
