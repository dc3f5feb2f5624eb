// Starts `isamap lsp` and hands it kernels, and YAML files that are machine descriptions.
const { window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function isDescription(document) {
  return document.languageId === "yaml" && /^\s*(#[^\n]*\n\s*)*isamap:\s*1\b/.test(document.getText());
}

exports.activate = async function () {
  const settings = workspace.getConfiguration("isamap");
  const [command, ...args] = settings.get("command");
  const ofDescriptions = { scheme: "file", language: "yaml" };
  client = new LanguageClient(
    "isamap",
    "isamap",
    { command, args },
    {
      documentSelector: [{ scheme: "file", language: "isamap" }, ofDescriptions],
      middleware: {
        // Other YAML files are not ours.
        didOpen: (document, next) =>
          document.languageId === "isamap" || isDescription(document) ? next(document) : undefined,
        didChange: (event, next) =>
          event.document.languageId === "isamap" || isDescription(event.document) ? next(event) : undefined,
      },
    },
  );
  try {
    await client.start();
  } catch (error) {
    window.showErrorMessage(
      `isamap's language server did not start: ${error.message}. Try \`pip install 'isamap[lsp]'\`, or set isamap.command.`,
    );
  }
};

exports.deactivate = () => client?.stop();
