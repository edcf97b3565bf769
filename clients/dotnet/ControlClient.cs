using System.Net.Http.Headers;
using System.Text;
using System.Text.Json;

namespace Minibroker;

/// <summary>A broker that does not start, or its response to a failed request of the control plane.</summary>
public sealed class MinibrokerException : Exception
{
    internal MinibrokerException(string message, Exception? cause = null)
        : base("minibroker: " + message, cause)
    {
    }

    /// <summary>The HTTP status, or 0 without a response.</summary>
    public int Status { get; internal init; }

    /// <summary>A code for programs: bad_request, not_found, conflict, timeout, unexpected ...</summary>
    public string Code { get; internal init; } = "";
}

/// <summary>A client of a control plane. Paths, bodies and answers are those of its reference, docs/control-plane.md.</summary>
public sealed class ControlClient : IDisposable
{
    private readonly HttpClient http;

    /// <summary>Makes a client of the control plane at an address such as <c>http://127.0.0.1:9900</c>.</summary>
    public ControlClient(string url, string? token = null)
    {
        Url = url;
        http = new HttpClient(new SocketsHttpHandler { UseProxy = false })
        {
            BaseAddress = new Uri(url),
            Timeout = Timeout.InfiniteTimeSpan, // The broker limits its waits, which can take minutes.
        };
        if (token != null)
        {
            http.DefaultRequestHeaders.Authorization = new AuthenticationHeaderValue("Bearer", token);
        }
    }

    /// <summary>The address of the control plane.</summary>
    public string Url { get; }

    /// <summary>Sends a GET, such as <c>/topics</c>.</summary>
    public Task<JsonElement> GetAsync(string path, CancellationToken cancellation = default) =>
        SendAsync(HttpMethod.Get, path, null, cancellation);

    /// <summary>Sends a POST, such as <c>/topics/orders/records/expect</c> with <c>new { key = "7" }</c>.</summary>
    public Task<JsonElement> PostAsync(string path, object? body = null, CancellationToken cancellation = default) =>
        SendAsync(HttpMethod.Post, path, body, cancellation);

    /// <summary>Sends a DELETE, such as <c>/faults</c>.</summary>
    public Task<JsonElement> DeleteAsync(string path, CancellationToken cancellation = default) =>
        SendAsync(HttpMethod.Delete, path, null, cancellation);

    /// <summary>Sends a request and returns its answer, whose kind is Undefined if it is empty.</summary>
    /// <exception cref="MinibrokerException">The status is 400 or higher.</exception>
    public async Task<JsonElement> SendAsync(
        HttpMethod method, string path, object? body = null, CancellationToken cancellation = default)
    {
        using var request = new HttpRequestMessage(method, path);
        if (body != null)
        {
            request.Content = new StringContent(JsonSerializer.Serialize(body), Encoding.UTF8, "application/json");
        }
        using var response = await http.SendAsync(request, cancellation).ConfigureAwait(false);
        var content = await response.Content.ReadAsStringAsync(cancellation).ConfigureAwait(false);
        if (!response.IsSuccessStatusCode)
        {
            throw Problem($"{method} {path}", (int)response.StatusCode, content);
        }
        return content.Length == 0 ? default : JsonSerializer.Deserialize<JsonElement>(content);
    }

    /// <inheritdoc/>
    public void Dispose() => http.Dispose();

    private static MinibrokerException Problem(string request, int status, string content)
    {
        var code = "foreign";
        var message = "not an answer of a control plane: " + content;
        try
        {
            var answer = JsonSerializer.Deserialize<Dictionary<string, JsonElement>>(content)!;
            (code, message) = (answer["error"].GetString()!, answer["message"].GetString()!);
        }
        catch (Exception error) when (error is JsonException || error is KeyNotFoundException)
        {
            // Something else answered.
        }
        return new MinibrokerException($"{request}: {message} ({status} {code})") { Status = status, Code = code };
    }
}
