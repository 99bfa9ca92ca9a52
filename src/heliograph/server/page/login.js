// Lets people in: asks for a name and password, or for a key, whichever the service knows, until somebody gets in.
import { call, get, session } from "./api.js";
import { attempt, el, field, open } from "./dom.js";
import { t } from "./words.js";

// `enter` runs whenever credentials may be good: at first, and after each login. `leave` is the button that logs out.
export function watchLogin(enter, leave) {
  let asking = null;

  async function check() {
    try {
      await get("auth/verify", {}, { place: false });
    } catch (error) {
      // 403 tells that a key is missing or wrong.
      if (error.status === 403) ask();
      throw error;
    }
    leave.hidden = !(session.token || session.key);
    await enter();
  }

  async function logIn() {
    const { auth_configured: hasAccounts } = await get("auth-status", {}, { place: false });
    const user = el("input", { name: "username", autocomplete: "username", required: true });
    const password = el("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
    const key = el("input", { name: "key", type: "password", autocomplete: "off", required: true });
    const fields = hasAccounts ? [field(t("user"), user), field(t("password"), password)]
      : [el("p", { class: "quiet" }, t("keyNeeded")), field(t("key"), key)];
    const data = await open(t("login"), fields, { send: t("login"), stays: true });
    if (!data) return;
    if (hasAccounts) {
      const form = new URLSearchParams({ username: data.get("username"), password: data.get("password"), grant_type: "password" });
      session.token = (await call("POST", "login", { form, place: false })).access_token;
    } else session.key = data.get("key");
    await check();
  }

  // One dialog, however many requests were refused at once.
  function ask() {
    session.token = session.key = null;
    asking ??= attempt(logIn).finally(() => {
      asking = null;
      if (!(session.token || session.key)) ask();
    });
  }

  addEventListener("login-needed", ask);
  leave.addEventListener("click", () => attempt(async () => {
    if (session.token) await call("POST", "logout", { place: false }).catch(() => null);
    session.token = session.key = null;
    location.reload();
  }));
  attempt(check);
}
