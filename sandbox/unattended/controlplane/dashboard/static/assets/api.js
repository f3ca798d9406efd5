// Asking the control plane over HTTP. Every request carries the person's token as a
// bearer token; an answer that is no success becomes an ApiError with the server's sentence.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Api {
  // onUnauthorized is called when the server does not know the token (any more).
  constructor(onUnauthorized) {
    this.token = "";
    this.onUnauthorized = onUnauthorized;
  }

  get(path, query) {
    return this.json("GET", path, query);
  }

  post(path, body) {
    return this.json("POST", path, null, body ?? {});
  }

  // work is post for what takes as long as it takes: the control plane bounds it itself.
  async work(path, body) {
    const response = await this.request("POST", path, null, body, null);
    return response.json();
  }

  put(path, query, body) {
    return this.json("PUT", path, query, body);
  }

  delete(path) {
    return this.json("DELETE", path);
  }

  async json(method, path, query, body) {
    const response = await this.request(method, path, query, body);
    return response.json();
  }

  // download saves what the path answers as a file. The token travels in a header: an
  // address with it would stay in the browser's list of downloads.
  async download(path, query, name) {
    const response = await this.request("GET", path, query, undefined, null);
    const url = URL.createObjectURL(await response.blob());
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }

  // request gives up after limit milliseconds; null is never.
  async request(method, path, query, body, limit = 120_000) {
    const headers = {};
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(address(path, query), { method, headers, body: body && JSON.stringify(body), cache: "no-store", signal: limit === null ? null : AbortSignal.timeout(limit) });
    } catch (error) {
      if (error.name === "TimeoutError") throw new ApiError(0, "the control plane did not answer in two minutes; try again");
      throw new ApiError(0, "the control plane cannot be reached; is gander serve running?");
    }
    if (response.ok) return response;
    if (response.status === 401) this.onUnauthorized();
    throw new ApiError(response.status, await sentence(response));
  }
}

// address puts the parts that are not empty behind a path.
export function address(path, query) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") parts.set(name, value);
  }
  const text = parts.toString();
  return text ? `${path}?${text}` : path;
}

async function sentence(response) {
  const text = (await response.text()).slice(0, 2000);
  try {
    return JSON.parse(text).error || `${response.status} ${response.statusText}`;
  } catch {
    return text || `${response.status} ${response.statusText}`;
  }
}
