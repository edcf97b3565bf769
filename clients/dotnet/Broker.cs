using System.ComponentModel;
using System.Diagnostics;

namespace Minibroker;

/// <summary>
/// Options of <see cref="Broker.StartAsync(ServeOptions, CancellationToken)"/>. The default is one broker on a free port
/// without topics, whose data is deleted when it stops.
/// </summary>
public sealed class ServeOptions
{
    /// <summary>
    /// The program and its first arguments, such as <c>python3 -m minibroker</c>. The default is the first of the program
    /// in the environment variable MINIBROKER_COMMAND, the program or archive of a release in MINIBROKER_BINARY, the one
    /// in the package of the platform, the one in the cache, and minibroker on the PATH.
    /// </summary>
    public string[] Command { get; init; } = Array.Empty<string>();

    /// <summary>Created at the start and again at each reset: <c>NAME[:PARTITIONS[:KEY=VALUE,...]]</c>.</summary>
    public string[] Topics { get; init; } = Array.Empty<string>();

    /// <summary>The size of the cluster.</summary>
    public int Brokers { get; init; } = 1;

    /// <summary>Whether to add a schema registry.</summary>
    public bool Registry { get; init; }

    /// <summary>The token of the control plane, which the client sends, or null for none.</summary>
    public string? Token { get; init; }

    /// <summary>Further arguments of <c>minibroker serve</c>, such as <c>--set</c>.</summary>
    public string[] Args { get; init; } = Array.Empty<string>();

    /// <summary>Receives the broker's log.</summary>
    public TextWriter Stderr { get; init; } = Console.Error;
}

/// <summary>A <c>minibroker serve</c> started by this process. It also ends when this process ends.</summary>
public sealed class Broker : IAsyncDisposable
{
    private const int KeptErrors = 8192;
    private static readonly TimeSpan StartTimeout = TimeSpan.FromSeconds(60);
    private static readonly TimeSpan StopTimeout = TimeSpan.FromSeconds(30);

    private readonly Process process;
    private bool isStopped;

    private Broker(Process process, IReadOnlyDictionary<string, string> words, ControlClient control)
    {
        this.process = process;
        BootstrapServers = words["bootstrap"];
        RegistryUrl = words.GetValueOrDefault("registry");
        Control = control;
    }

    /// <summary>For the configuration of Kafka clients: HOST:PORT, or several separated by commas.</summary>
    public string BootstrapServers { get; }

    /// <summary>The address of the schema registry, or null without <see cref="ServeOptions.Registry"/>.</summary>
    public string? RegistryUrl { get; }

    /// <summary>A client of the broker's control plane.</summary>
    public ControlClient Control { get; }

    /// <summary>Starts a broker with these topics on free ports.</summary>
    public static Task<Broker> StartAsync(params string[] topics) => StartAsync(new ServeOptions { Topics = topics });

    /// <summary>Starts a broker as a child process on free ports, and returns when clients can connect.</summary>
    /// <exception cref="MinibrokerException">It has not become ready.</exception>
    public static async Task<Broker> StartAsync(ServeOptions options, CancellationToken cancellation = default)
    {
        var command = options.Command.Length > 0 ? options.Command : new[] { Program.Find() };
        var program = command[0];
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        limit.CancelAfter(StartTimeout);
        var process = new Process { StartInfo = StartInfo(command, options) };
        var kept = "";
        process.ErrorDataReceived += (_, line) =>
        {
            if (line.Data != null)
            {
                kept += line.Data + "\n";
                kept = kept.Substring(Math.Max(0, kept.Length - KeptErrors));
                options.Stderr.WriteLine(line.Data);
            }
        };
        var ready = new TaskCompletionSource<string?>(TaskCreationOptions.RunContinuationsAsynchronously);
        process.OutputDataReceived += (_, line) =>
        {
            if (line.Data == null || line.Data.StartsWith("minibroker ready:", StringComparison.Ordinal))
            {
                ready.TrySetResult(line.Data); // It is null at the end.
            }
        };
        MinibrokerException Failure(string reason, string advice = "") =>
            new MinibrokerException($"{program} {reason}\n{kept}".Trim() + advice);
        try
        {
            process.Start();
        }
        catch (Win32Exception error)
        {
            process.Dispose();
            throw Failure($"does not start: {error.Message}; {Program.Hint(program)}");
        }
        process.BeginErrorReadLine();
        process.BeginOutputReadLine();
        try
        {
            var line = await ready.Task.WaitAsync(limit.Token).ConfigureAwait(false);
            if (line == null)
            {
                await process.WaitForExitAsync(limit.Token).ConfigureAwait(false);
                var status = $"exit status {process.ExitCode}";
                throw Failure($"serve has ended before it was ready, with {status}", Program.Damage(program));
            }
            var words = line.Split(' ').Where(word => word.Contains('=')).Select(word => word.Split('=', 2))
                .ToDictionary(pair => pair[0], pair => pair[1]);
            var control = new ControlClient(words["control"], options.Token);
            var about = await control.GetAsync("/", limit.Token).ConfigureAwait(false);
            var version = about.GetProperty("version").GetString();
            if (version != Program.Version)
            {
                throw Failure($"has the version {version}, and the package Minibroker {Program.Version}");
            }
            return new Broker(process, words, control);
        }
        catch (Exception error)
        {
            process.Kill(true);
            process.Dispose();
            if (error is OperationCanceledException && !cancellation.IsCancellationRequested)
            {
                throw Failure($"has not become ready in {StartTimeout.TotalSeconds} s");
            }
            throw;
        }
    }

    /// <summary>Stops the broker and deletes its data unless it has a --data-dir.</summary>
    /// <exception cref="MinibrokerException">It has failed, or had to be killed.</exception>
    public async ValueTask DisposeAsync()
    {
        if (isStopped)
        {
            return;
        }
        isStopped = true;
        process.StandardInput.Close();
        try
        {
            await process.WaitForExitAsync().WaitAsync(StopTimeout).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            process.Kill(true);
            await process.WaitForExitAsync().ConfigureAwait(false);
        }
        var status = process.ExitCode;
        process.Dispose();
        Control.Dispose();
        if (status != 0)
        {
            throw new MinibrokerException($"the broker has ended with exit status {status}");
        }
    }

    private static ProcessStartInfo StartInfo(string[] command, ServeOptions options)
    {
        var start = new ProcessStartInfo(command[0])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        var arguments = new List<string>(command.Skip(1));
        arguments.AddRange(new[] { "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--stop-with-stdin", "--journal" });
        arguments.AddRange(options.Topics.SelectMany(topic => new[] { "--topic", topic }));
        arguments.AddRange(new[] { "--brokers", $"{options.Brokers}" });
        arguments.AddRange(options.Registry ? new[] { "--registry", "127.0.0.1:0" } : Array.Empty<string>());
        arguments.AddRange(options.Args);
        arguments.ForEach(start.ArgumentList.Add);
        if (options.Token != null)
        {
            start.Environment["MINIBROKER_CONTROL_TOKEN"] = options.Token;
        }
        return start;
    }
}
