// What the service says in English, in the language of the page: failures by their type, sentences that it says often.
// What is not known here is shown as the service said it.
import { language } from "./words";

/** By the last part of a problem's `type`, which is the class of the error in `errors.py`. */
const FAILURES: Record<string, string> = {
  SettingsError: "设置无效", MissingDependencyError: "服务器未安装所需的可选组件", InvalidRequestError: "请求无效", NotFoundError: "未找到",
  ConflictError: "与当前状态冲突", StaleChangesetError: "内容已被他人更改，请重试", IngestError: "无法收录该文档", CancelledIngestError: "处理已取消",
  AuthenticationError: "需要登录", AccessError: "没有权限", PermissionDenied: "没有权限", OverloadedError: "请求过多，请稍后再试", RequestTooLargeError: "请求过大",
  ServiceUnavailable: "服务暂不可用", ClusterUnavailable: "读取文档的集群不可用", StoreError: "存储出错", StoreUnavailable: "存储不可用",
  StoreAccessDenied: "存储拒绝访问", StoreDamaged: "存储已损坏", SchemaMismatch: "存储与此版本不符", ModelError: "模型出错", RateLimited: "模型暂时拒绝请求，请稍后再试",
  ModelTimeout: "模型未在规定时间内响应", BadModelReply: "模型的回复无法使用", ContextTooLong: "内容超出模型可读的长度", ModelUnavailable: "模型不可用",
};

const SENTENCES: [RegExp, string][] = [
  [/^no keywords were found in the question: .*$/, "问题中没有找到关键词，因此按整句检索"],
  [/^the low-level keywords are empty: .*$/, "没有名称关键词，因此未检索实体"],
  [/^the high-level keywords are empty: .*$/, "没有主题关键词，因此未检索关系"],
  [/^the chat model gave no usable keywords \((.*)\); .*$/s, "聊天模型未给出可用的关键词，已在本地提取（$1）"],
  [/^the chat model gave no usable understanding of the question \((.*)\); .*$/s, "聊天模型未能理解问题，已按规则理解（$1）"],
  [/^the reranker (.*) failed, so .*?: (.*)$/s, "重排序模型 $1 失败，段落保持检索顺序（$2）"],
  [/^the reranker (.*) ranked nothing, .*$/, "重排序模型 $1 未排序任何段落，段落保持检索顺序"],
  [/^no passage fits (\S+) .*$/s, "没有段落能放入预算 $1；请提高总预算，或降低实体与关系预算"],
  [/^no entity and no relation fits .*$/s, "没有实体或关系能放入预算；请提高预算"],
  [/^system_prompt has no \{user_prompt\}.*$/, "系统提示词中没有 {user_prompt}，因此未使用给模型的说明"],
  [/^(\d+|one|a) citations? of no document in the context left out$/, "已去掉 $1 处不属于所查文档的引用"],
  [/^(\d+|one|a) sentences? of the answer without a document that supports it$/, "回答中有 $1 句没有文档支持"],
  [/^.*no chat model is configured.*$/s, "未配置聊天模型"],
  [/^(.*) is not a public address.*$/s, "$1 不是公开地址，未获取"],
  [/^(.*)there is no text in it.*$/s, "$1其中没有文本"],
  [/^(.*)(?:is|was) encrypted.*$/s, "$1已加密，无法读取"],
];

const isChinese = () => language.value === "zh";

/** A warning or a reason that the service gave as a sentence. */
export function serviceText(text: string): string {
  if (!isChinese()) return text;
  const found = SENTENCES.find(([pattern]) => pattern.test(text));
  return found ? text.replace(found[0], found[1]) : text;
}

/** A failure with its reason; the reason stays, since it says what exactly it was about. */
export function failureText(type: string, detail: string): string {
  const name = type.slice(type.lastIndexOf(":") + 1);
  const word = isChinese() ? FAILURES[name] : undefined;
  return word ? `${word}：${serviceText(detail)}` : serviceText(detail);
}
