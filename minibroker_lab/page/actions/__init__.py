"""The actions of the page's view Do: their forms, the request of each, and the lines that do the same elsewhere.

`table` lists them. `forms` makes their fields of the control plane's OpenAPI document, and `requests` makes a request
to the control plane of what a user has typed. `python_lines`, `curl_lines` and `tool_lines` write the request down.
"""
